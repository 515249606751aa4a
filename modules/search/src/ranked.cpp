// SPDX-License-Identifier: Apache-2.0
#include "ranked.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace tw::search {
namespace {

// From the best to the worst: seven colours of viridis. Ref: Smith & van der Walt 2015.
constexpr std::array<std::array<double, 3>, 7> viridis{
    {{253, 231, 37}, {144, 215, 67}, {53, 183, 121}, {33, 145, 140}, {49, 104, 142}, {68, 57, 131}, {68, 1, 84}}};

}  // namespace

std::vector<size_t> chosen_ranks(size_t all, size_t most) {
  std::vector<size_t> ranks;
  const size_t best = all <= most ? all : most / 5;
  for (size_t rank = 0; rank < best; ++rank) ranks.push_back(rank);
  const size_t others = std::min(all, most) - best;
  for (size_t i = 0; i < others; ++i) ranks.push_back(best + (all - best - 1) * i / (others - 1));
  return ranks;
}

std::string colour_of_rank(double share) {
  const double at = std::clamp(share, 0.0, 1.0) * (viridis.size() - 1);
  const auto from = std::min(static_cast<size_t>(at), viridis.size() - 2);
  const double part = at - static_cast<double>(from);
  std::string text = "rgb(";
  for (size_t i = 0; i < 3; ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(std::lround((1 - part) * viridis[from][i] + part * viridis[from + 1][i]));
  }
  return text + ')';
}

}  // namespace tw::search
