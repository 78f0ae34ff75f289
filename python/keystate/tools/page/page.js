(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");

  // What all charts have in common; axes keep what a chart says of its own.
  function styled(layout) {
    const text = dark.matches ? "#e6e6e6" : "#222";
    const grid = dark.matches ? "#ffffff22" : "#00000018";
    const axis = { gridcolor: grid, zerolinecolor: grid, automargin: true };
    const common = {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: text, family: "system-ui, sans-serif" },
      colorway: ["#00897b", "#5c6bc0", "#ef6c00", "#c2185b", "#7cb342", "#8e24aa", "#00acc1", "#fbc02d", "#795548", "#90a4ae"],
      margin: { t: 36, r: 24, b: 40, l: 56 },
      legend: { orientation: "h", y: 1.12 },
      barmode: "group",
    };
    const axes = Object.keys({ xaxis: 0, yaxis: 0, ...layout }).filter((name) => /^[xy]axis/.test(name));
    axes.forEach((name) => (common[name] = { ...axis, ...layout[name] }));
    return { ...layout, ...common };
  }

  // Nothing is quiet, little is pale, and the most stands out from the page, dark or not.
  function colored(trace) {
    if (trace.type !== "heatmap") return trace;
    const [nothing, little, most] = dark.matches ? ["#262626", "#11403b", "#a7ffeb"] : ["#ececec", "#b2dfdb", "#00332d"];
    return { ...trace, colorscale: [[0, nothing], [1e-6, little], [1, most]] };
  }

  function draw() {
    figures.forEach(({ data, layout }, i) =>
      Plotly.react(`chart${i}`, data.map(colored), styled(layout), { responsive: true, displayModeBar: false }));
  }
  draw();
  dark.addEventListener("change", draw);

  // A page of a server is shown anew after the query's next batch.
  const { live, batch } = document.body.dataset;
  if (live === "true")
    setInterval(async () => {
      const answer = await fetch("inspect").catch(() => null);
      if (answer && answer.ok && String((await answer.json()).batch ?? "None") !== batch) location.reload();
    }, 10000);
})();
