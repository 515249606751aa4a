// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string_view>
#include <tw/algorithms/selection.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/number_text.hpp>

#include "selection_names.hpp"

namespace tw::algorithms {
namespace {

constexpr int64_t without_limit = std::numeric_limits<int64_t>::max();
constexpr int smallest_power = 8, largest_power = 34;  // sizes that are tried: 256 bytes to 16 GiB

std::string milliseconds(std::chrono::duration<double> time) { return brief_text(1e3 * time.count(), 3) + " ms"; }

// Chooses the cheapest algorithm; the reason names the second one for comparison.
Choice choice_by_price(Collective collective, const Cluster& cluster, const std::function<bool(std::string_view, Collective)>& can, int64_t bytes) {
  std::vector<std::pair<Price, std::string_view>> prices;
  for (const std::string_view method : methods_for(collective, cluster)) {
    if (!can || can(method, collective)) prices.emplace_back(price_of(method, collective, cluster, bytes), method);
  }
  if (prices.empty()) return {collective, bytes, "mpi", "no other algorithm is available"};
  std::stable_sort(prices.begin(), prices.end(), [](const auto& a, const auto& b) { return a.first.total() < b.first.total(); });
  const auto& [price, method] = prices.front();
  const std::string at = concat("predicted for ", bytes, " bytes: ", milliseconds(price.total()));
  // For `double_tree` latency alone proves nothing, because its number of blocks balances it. The next algorithm's latency then counts too.
  const auto is_latency = [](const Price& one) { return 4 * one.latency > one.total(); };
  const auto whole = std::find_if(prices.begin(), prices.end(), [](const auto& one) { return one.second != name_of(Algorithm::double_tree); });
  const bool mpi_has_few_messages = collective != Collective::allgather;  // Open MPI's non-blocking one has P - 1
  if (mpi_has_few_messages && is_latency(price) && (whole == prices.end() || is_latency(whole->first)))
    return {collective, bytes, "mpi",
            concat(method, " would be slowed by latency, ", at, ", including latency of ", milliseconds(price.latency), ": MPI is used")};
  std::string reason = at;
  if (prices.size() > 1) reason += concat(", ", prices[1].second, " ", milliseconds(prices[1].first.total()));
  return {collective, bytes, std::string(method), reason};
}

// Merges neighbours with the same backend; the first one's reason is kept.
void append(std::vector<Choice>& choices, Choice choice) {
  const bool goes_on = !choices.empty() && choices.back().collective == choice.collective && choices.back().backend == choice.backend;
  if (goes_on) {
    choices.back().largest_bytes = choice.largest_bytes;
  } else {
    choices.push_back(std::move(choice));
  }
}

std::string size_text(int64_t bytes) {
  constexpr std::array units{" bytes", " KiB", " MiB", " GiB"};
  auto size = static_cast<double>(bytes);
  size_t unit = 0;
  for (; size >= 1024 && unit + 1 < units.size(); ++unit) size /= 1024;
  return brief_text(size) + units[unit];
}

}  // namespace

Selection Selection::by_price(const Cluster& cluster, const std::function<bool(std::string_view, Collective)>& can) {
  std::vector<Choice> choices;
  for (const Collective collective : selected_collectives) {
    if (cluster.nodes == 1) {
      const bool through_memory = collective != Collective::alltoall;
      choices.push_back({collective, without_limit, through_memory ? "shared_memory" : "mpi", "all ranks are on one node"});
      continue;
    }
    for (int power = smallest_power; power <= largest_power; ++power) append(choices, choice_by_price(collective, cluster, can, int64_t{1} << power));
    choices.back().largest_bytes = without_limit;
  }
  return Selection(std::move(choices));
}

Selection::Selection(std::vector<Choice> choices) : choices_(std::move(choices)) {
  for (size_t i = 0; i < choices_.size(); ++i) {
    const bool is_last = i + 1 == choices_.size() || choices_[i + 1].collective != choices_[i].collective;
    TW_EXPECTS(is_last ? choices_[i].largest_bytes == without_limit : choices_[i].largest_bytes < choices_[i + 1].largest_bytes, "the choices for ",
               name_of(choices_[i].collective), " must ascend by size, and the last one must have no limit");
  }
}

const Choice* Selection::choice(Collective collective, int64_t bytes) const& noexcept {
  for (const Choice& choice : choices_) {
    if (choice.collective == collective && bytes <= choice.largest_bytes) return &choice;
  }
  return nullptr;
}

std::string Selection::to_text() const {
  std::string text;
  for (const Choice& choice : choices_) {
    const std::string size = choice.largest_bytes == without_limit ? "any size" : "up to " + size_text(choice.largest_bytes);
    const auto padded = [](const std::string& word, size_t width) { return word + std::string(word.size() < width ? width - word.size() : 1, ' '); };
    text += padded(std::string(name_of(choice.collective)), 16) + padded(size, 16) + padded(choice.backend, 20) + choice.reason + "\n";
  }
  return text;
}

}  // namespace tw::algorithms
