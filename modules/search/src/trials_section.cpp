// SPDX-License-Identifier: Apache-2.0
// All trials, or a selection of them: a table to sort and to filter.
#include <algorithm>
#include <tw/base/concat.hpp>

#include "cells.hpp"
#include "exported.hpp"
#include "ranked.hpp"
#include "report_sections.hpp"

namespace tw::search {
namespace {

constexpr size_t max_table_cells = 20000;
constexpr size_t max_table_rows = 2000;

/// The entries to show, sorted by trial. If there are many: half are the best ones and others from all ranks, and half the last ones that do not
/// count.
std::vector<const LedgerEntry*> trials_shown(const Findings& findings, size_t most) {
  std::vector<const LedgerEntry*> others;
  for (const LedgerEntry& entry : findings.ledger.trials) {
    if (!entry.individual.has_comparable_loss()) others.push_back(&entry);
  }
  const size_t max_others = std::max(most / 2, most - std::min(most, findings.ranked.size()));
  if (others.size() > max_others) others.erase(others.begin(), others.end() - static_cast<std::ptrdiff_t>(max_others));
  std::vector<const LedgerEntry*> shown = others;
  for (const size_t rank : chosen_ranks(findings.ranked.size(), most - others.size())) shown.push_back(findings.ranked[rank]);
  std::ranges::sort(shown, {}, [](const LedgerEntry* entry) { return entry->individual.trial; });
  return shown;
}

std::string filters(const std::vector<const LedgerEntry*>& shown) {
  std::string html;
  for (const TrialState state : states) {
    const auto count = std::ranges::count(shown, state, [](const LedgerEntry* entry) { return entry->individual.state; });
    if (count == 0) continue;
    html += "<label><input type=\"checkbox\" checked=\"\" value=\"" + state_text(state) + "\"/> " +
            escaped(concat(state_text(state), " (", count, ")")) + "</label>\n";
  }
  return element("p", html);
}

}  // namespace

std::string trials_section(const Findings& findings) {
  const Space& space = findings.space;
  const size_t all = findings.ledger.trials.size();
  if (all == 0) return "";
  std::vector<std::string> head{"trial", "loss", "state", "seconds", "worker", "island"};
  const size_t constraints = constraints_of(findings.ledger);
  for (size_t i = 1; i <= constraints; ++i) head.push_back(concat("constraint ", i));
  for (const Parameter& each : space.parameters()) head.push_back(each.name);
  const std::vector<const LedgerEntry*> shown = trials_shown(findings, std::clamp<size_t>(max_table_cells / head.size(), 100, max_table_rows));
  std::vector<std::vector<std::string>> rows;
  for (const LedgerEntry* entry : shown) {
    const Individual& each = entry->individual;
    rows.push_back({concat(each.trial), each.has_comparable_loss() ? cell_text(each.loss) : "", state_text(each.state),
                    entry->has_ended() ? brief_text(each.seconds) : "", concat(entry->worker), concat(each.island)});
    for (size_t i = 0; i < constraints; ++i) rows.back().push_back(i < entry->constraints.size() ? cell_text(entry->constraints[i]) : "");
    append_cells(rows.back(), space, each.values);
  }
  std::string text = concat("Trials: ", share_text(shown.size(), all));
  if (shown.size() < all)
    text += ": the best, others from all ranks of the loss, and the last ones without a loss. All are in trials.csv and trials.sqlite";
  text += ". Click on a column's name to sort by it, and again to reverse the order.";
  return element("h2", "Trials") + note(text) + "<div id=\"trials\">" + filters(shown) + "<div class=\"trials\">" + table(head, rows) +
         "</div></div>\n";
}

const char* trials_script() {
  return R"(
const list = document.getElementById('trials');
if (list) {
  const rows = Array.from(list.querySelectorAll('tr'));
  const head = rows.shift();
  const body = head.parentNode;
  let sorted = -1;
  let sign = 1;
  // Numbers come before texts. Empty cells are always last.
  const order = (a, b) => {
    if (a === '' || b === '') return (a === '') - (b === '');
    const both = [Number(a), Number(b)];
    const words = both.map(Number.isNaN);
    if (words[0] || words[1]) return sign * (words[0] - words[1] || a.localeCompare(b));
    return sign * (both[0] - both[1]);
  };
  Array.from(head.cells).forEach((cell, column) => cell.addEventListener('click', () => {
    sign = sorted === column ? -sign : 1;
    sorted = column;
    rows.sort((a, b) => order(a.cells[column].textContent, b.cells[column].textContent));
    rows.forEach(row => body.appendChild(row));
    Array.from(head.cells).forEach((each, i) => { each.dataset.sorted = i === column ? (sign === 1 ? ' ▲' : ' ▼') : ''; });
  }));
  const boxes = Array.from(list.querySelectorAll('input'));
  boxes.forEach(box => box.addEventListener('change', () => {
    const states = boxes.filter(each => each.checked).map(each => each.value);
    rows.forEach(row => { row.hidden = !states.includes(row.cells[2].textContent); });
  }));
}
)";
}

}  // namespace tw::search
