// SPDX-License-Identifier: Apache-2.0
#include <tw/base/concat.hpp>
#include <tw/state/layout.hpp>

#include <algorithm>
#include <functional>
#include <numeric>
#include <ranges>

#include "boxes.hpp"

namespace tw {

int64_t Box::numel() const noexcept { return std::accumulate(lengths.begin(), lengths.end(), int64_t{1}, std::multiplies<>()); }

std::string Box::describe() const {
  const auto range = [&](size_t i) { return concat(offsets[i], ':', offsets[i] + lengths[i]); };
  return '[' + joined(std::views::iota(size_t{0}, lengths.size()), ", ", range) + ']';
}

Box whole_box(const std::vector<int64_t>& shape) { return {std::vector<int64_t>(shape.size(), 0), shape}; }

bool lies_in(const Box& box, const std::vector<int64_t>& shape) {
  if (box.offsets.size() != shape.size() || box.lengths.size() != shape.size()) return false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (box.offsets[i] < 0 || box.lengths[i] < 0 || box.offsets[i] > shape[i] || box.lengths[i] > shape[i] - box.offsets[i]) return false;
  }
  return true;
}

std::optional<Box> intersection(const Box& a, const Box& b) {
  Box common;
  for (size_t i = 0; i < a.offsets.size(); ++i) {
    const int64_t begin = std::max(a.offsets[i], b.offsets[i]);
    const int64_t end = std::min(a.offsets[i] + a.lengths[i], b.offsets[i] + b.lengths[i]);
    if (begin >= end) return std::nullopt;
    common.offsets.push_back(begin);
    common.lengths.push_back(end - begin);
  }
  return common;
}

std::vector<int64_t> relative(const std::vector<int64_t>& offsets, const Box& box) {
  std::vector<int64_t> result(offsets);
  for (size_t i = 0; i < result.size(); ++i) result[i] -= box.offsets[i];
  return result;
}

std::optional<size_t> dimension_of_cuts(const std::vector<const Box*>& boxes) {
  std::optional<size_t> best;
  size_t most = 0;
  for (size_t dimension = 0; !boxes.empty() && dimension < boxes.front()->offsets.size(); ++dimension) {
    std::vector<int64_t> begins;
    for (const Box* box : boxes) begins.push_back(box->offsets[dimension]);
    std::ranges::sort(begins);
    begins.erase(std::ranges::unique(begins).begin(), begins.end());
    if (begins.size() > most) {
      most = begins.size();
      best = dimension;
    }
  }
  return best;
}

namespace {

/// Two boxes with common elements, in the order in which they begin; nullopt if no two overlap. None of `boxes` may be empty.
std::optional<std::pair<const Box*, const Box*>> overlapping(std::vector<const Box*> boxes) {
  const auto along = dimension_of_cuts(boxes);
  if (along) std::ranges::stable_sort(boxes, {}, [&](const Box* box) { return box->offsets[*along]; });
  std::vector<const Box*> open;  // boxes that have not ended where the current one begins
  for (const Box* box : boxes) {
    if (along) std::erase_if(open, [&](const Box* other) { return other->offsets[*along] + other->lengths[*along] <= box->offsets[*along]; });
    for (const Box* other : open) {
      if (intersection(*other, *box)) return std::pair(other, box);
    }
    open.push_back(box);
  }
  return std::nullopt;
}

}  // namespace

std::string tiling_problem(const std::vector<int64_t>& shape, const std::vector<Box>& boxes) {
  int64_t covered = 0;
  std::vector<const Box*> filled;
  for (const Box& box : boxes) {
    if (!lies_in(box, shape)) return concat("slice ", box.describe(), " does not lie in ", shape_text(shape));
    covered += box.numel();
    if (box.numel() > 0) filled.push_back(&box);
  }
  if (const auto both = overlapping(std::move(filled))) {
    return concat("slices ", both->first->describe(), " and ", both->second->describe(), " overlap");
  }
  const int64_t numel = whole_box(shape).numel();
  return covered == numel ? "" : concat("its slices cover ", covered, " of ", numel, " elements");
}

}  // namespace tw
