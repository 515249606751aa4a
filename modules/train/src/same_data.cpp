// SPDX-License-Identifier: Apache-2.0
#include "same_data.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/objects.hpp>

#include "data_identity.hpp"

namespace tw::train {
namespace {

constexpr const char* changing = "changing";

// "" if there are none.
std::string few_samples(const Dataset& data) {
  const int64_t size = data.size();
  if (size == 0) return "";
  const std::array<int64_t, 3> indices{0, size / 2, size - 1};
  const std::string hash = hash_of_samples(data, indices);
  return hash_of_samples(data, indices) == hash ? hash : changing;
}

}  // namespace

void expect_same_data(const Ranks& ranks, const Model& model, const char* name, const Dataset& data) {
  if (ranks.all.size() == 1) return;
  const bool reads = model.trained->needs_samples();
  const std::string here = on_all_ranks(ranks.all, "reading samples", [&] { return reads ? few_samples(data) : ""; });
  const std::vector<std::string> all = allgather_strings(ranks.all, here);
  const auto first = std::ranges::find_if(all, [](const std::string& each) { return !each.empty(); });
  if (first == all.end()) return;
  const auto readers = std::ranges::count_if(all, [](const std::string& each) { return !each.empty(); });
  const bool changes = std::ranges::find(all, changing) != all.end();
  TW_EXPECTS(!changes || readers <= ranks.samples.size(), "samples of the ", name,
             " set change from one reading to the next, so the ranks that hold one model together would train on different samples: change samples ",
             "in a Hook's on_sample(), whose random numbers these ranks share, or by Options::augmentation");
  if (changes) return;
  for (auto other = first; other != all.end(); ++other) {
    TW_EXPECTS(other->empty() || *other == *first, "the ", name, " set has other samples on rank ", other - all.begin(), " than on rank ",
               first - all.begin(), ": pass the whole set on every rank; the trainer selects each rank's part of it");
  }
}

}  // namespace tw::train
