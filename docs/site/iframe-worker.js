// Where pages are opened from a folder, browsers start no workers, and the search is one. There a
// hidden frame takes its place: it runs the same script, with the worker's postMessage and
// importScripts.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.body.appendChild(document.createElement("iframe"));
      this.frame.hidden = true;
      addEventListener("message", (event) => {
        if (event.source === this.frame.contentWindow) {
          this.dispatchEvent(new MessageEvent("message", { data: event.data }));
        }
      });
      const page = this.frame.contentDocument;
      this.started = new Promise((resolve) => (this.frame.onload = resolve));
      page.open();
      page.write(
        `<body><script>
          postMessage = (data) => parent.postMessage(data, "*");
          importScripts = async (...urls) => {
            for (const url of urls) {
              await new Promise((resolve, reject) => {
                const script = document.createElement("script");
                Object.assign(script, { src: url, onload: resolve, onerror: reject });
                document.body.appendChild(script);
              });
            }
          };
        </scr` + `ipt><script src="${url}"></scr` + `ipt></body>`
      );
      page.close();
    }

    set onmessage(listener) {
      this.addEventListener("message", listener);
    }

    postMessage(data) {
      this.started.then(() =>
        this.frame.contentWindow.dispatchEvent(
          new MessageEvent("message", { data: structuredClone(data) })
        )
      );
    }

    terminate() {
      this.frame.remove();
    }
  };
}
