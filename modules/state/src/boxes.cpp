// SPDX-License-Identifier: Apache-2.0
#include <tw/base/concat.hpp>
#include <tw/state/layout.hpp>

#include <algorithm>
#include <functional>
#include <numeric>

#include "boxes.hpp"

namespace tw {

int64_t Box::numel() const noexcept { return std::accumulate(lengths.begin(), lengths.end(), int64_t{1}, std::multiplies<>()); }

std::string Box::describe() const {
  std::string text = "[";
  for (size_t i = 0; i < lengths.size(); ++i) text += concat(i == 0 ? "" : ", ", offsets[i], ":", offsets[i] + lengths[i]);
  return text + "]";
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

std::string why_no_tiling(const std::vector<int64_t>& shape, const std::vector<Box>& boxes) {
  int64_t covered = 0;
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (!lies_in(boxes[i], shape)) return concat("slice ", boxes[i].describe(), " does not lie in ", shape_text(shape));
    for (size_t j = 0; j < i; ++j) {
      if (intersection(boxes[i], boxes[j])) return concat("slices ", boxes[j].describe(), " and ", boxes[i].describe(), " overlap");
    }
    covered += boxes[i].numel();
  }
  const int64_t numel = whole_box(shape).numel();
  return covered == numel ? "" : concat("its slices hold ", covered, " of ", numel, " elements");
}

}  // namespace tw
