// A choice of the documentation's versions. They are folders side by side, and versions.js above
// them lists their pages: docs/site/publish.py writes it. It is loaded as a script, because a page
// that was opened as a file may not fetch others. A site that stands alone has no such list.
(() => {
  const root = new URL("..", document.currentScript.src); // this version's folder
  const page = location.href.slice(root.href.length).split(/[?#]/)[0];
  const own = root.pathname.split("/").at(-2);

  window.keystateVersions = (pages) => {
    const select = document.createElement("select");
    select.className = "versions";
    select.ariaLabel = "Version";
    for (const version of Object.keys(pages)) {
      select.add(new Option(version, version, version === own, version === own));
    }
    select.onchange = () => {
      const there = pages[select.value].includes(page) ? page : "index.html";
      location.href = new URL(`../${select.value}/${there}`, root).href;
    };
    document.querySelector(".md-header__title").after(select);
  };
  const list = document.createElement("script");
  list.src = new URL("../versions.js", root).href;
  document.head.append(list);
})();
