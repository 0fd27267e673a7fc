// Runs before the first paint, so that a chosen theme does not flash.
(function () {
  try {
    const chosen = localStorage.getItem("iris.theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // Without storage the system decides.
  }
})();
