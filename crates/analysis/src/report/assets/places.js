// Of several blocks the one that is chosen is shown; without scripts all are.
for (const box of document.querySelectorAll("[data-blocks]")) {
  const list = box.querySelector("select");
  const show = () => box.querySelectorAll("[data-block]").forEach((block) => { block.hidden = block.dataset.block !== list.value; });
  list.addEventListener("change", show);
  show();
}
