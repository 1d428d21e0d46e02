"use strict";
// Sorts a table by the heading that is pressed: ascending, descending, as given. Empty cells are always last.
{
  const NEXT = { none: "ascending", ascending: "descending", descending: "none" };
  const spoken = document.getElementById("sorted");

  const key = (row, column) => {
    const cell = row.cells[column];
    return { number: cell.dataset.value === undefined ? NaN : Number(cell.dataset.value), text: cell.textContent.trim() };
  };

  const compare = (a, b) => {
    if (Number.isNaN(a.number) || Number.isNaN(b.number)) return a.text.localeCompare(b.text, "en", { numeric: true });
    return a.number - b.number;
  };

  const sort = (given, column, direction) => {
    if (direction === "none") return given;
    const sign = direction === "ascending" ? 1 : -1;
    const keyed = given.map((row) => ({ row, key: key(row, column) }));
    const full = keyed.filter(({ key }) => key.text !== "").sort((a, b) => sign * compare(a.key, b.key));
    return [...full, ...keyed.filter(({ key }) => key.text === "")].map(({ row }) => row);
  };

  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    const given = [...body.rows];
    const headings = [...table.querySelectorAll("th[aria-sort]")];
    headings.forEach((heading, column) => {
      const button = heading.querySelector("button");
      button.disabled = false;
      button.addEventListener("click", () => {
        const direction = NEXT[heading.getAttribute("aria-sort")];
        for (const other of headings) other.setAttribute("aria-sort", "none");
        heading.setAttribute("aria-sort", direction);
        body.append(...sort(given, column, direction));
        const order = direction === "none" ? "in the order of the comparison" : `by ${button.textContent}, ${direction}`;
        spoken.textContent = `${table.caption.textContent}: sorted ${order}`;
      });
    });
  }
  for (const hint of document.querySelectorAll(".hint")) hint.hidden = false;
}
