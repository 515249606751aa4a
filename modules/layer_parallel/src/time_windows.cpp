// SPDX-License-Identifier: Apache-2.0
#include "time_windows.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <tw/base/numbers.hpp>
#include <tw/comm/collectives.hpp>

namespace tw::layer_parallel {
namespace {

at::Tensor zeros_of(const at::Tensor& like, int64_t rows) {
  auto shape = like.sizes().vec();
  shape[0] = rows;
  return at::zeros(shape, like.options());
}

// Sums over the windows `which`, limited to the steps in the block.
at::Tensor partial_sums(const at::Tensor& values, const LevelPlan::Range& block, const Windows& windows, const LevelPlan::Range& which) {
  const at::Tensor sums = zeros_of(values, which.size());
  int64_t begin = which.begin;
  const auto add_part_of = [&](int64_t window) {
    const int64_t from = std::max(windows.begin(window), block.begin);
    const int64_t to = std::min(windows.begin(window + 1), block.end);
    sums.select(0, window - which.begin).copy_(values.narrow(0, from - block.begin, to - from).sum(0));
  };
  if (begin < which.end && windows.begin(begin) < block.begin) add_part_of(begin++);
  int64_t end = which.end;
  if (end > begin && windows.begin(end) > block.end) add_part_of(--end);
  if (end == begin) return sums;
  auto shape = values.sizes().vec();
  shape[0] = windows.length;
  shape.insert(shape.begin(), end - begin);
  const at::Tensor whole = values.narrow(0, windows.begin(begin) - block.begin, (end - begin) * windows.length).reshape(shape);
  sums.narrow(0, begin - which.begin, end - begin).copy_(whole.sum(1));
  return sums;
}

}  // namespace

LevelPlan::Range Windows::overlapping(const LevelPlan::Range& block) const noexcept {
  const auto clamped = [&](int64_t window) { return std::clamp<int64_t>(window, 0, count); };
  if (block.size() == 0 || block.end <= first) return {0, 0};
  const int64_t begin = block.begin <= first ? 0 : clamped((block.begin - first) / length);
  return {begin, std::max(begin, clamped(divide_up(block.end - first, length)))};
}

at::Tensor window_sums(const Communicator& comm, const at::Tensor& values, const std::vector<LevelPlan::Range>& blocks,
                       const std::vector<Windows>& windows) {
  const auto me = static_cast<size_t>(int{comm.rank()});
  const at::Tensor sums = zeros_of(values, windows[me].count);
  std::vector<Work> sends;
  for (size_t rank = 0; rank < blocks.size(); ++rank) {
    const LevelPlan::Range which = windows[rank].overlapping(blocks[me]);
    if (rank == me || which.size() == 0) continue;
    sends.push_back(isend(comm, partial_sums(values, blocks[me], windows[rank], which), Rank(static_cast<int>(rank))));
  }
  for (size_t rank = 0; rank < blocks.size(); ++rank) {
    const LevelPlan::Range which = windows[me].overlapping(blocks[rank]);
    if (which.size() == 0) continue;
    const at::Tensor part = rank == me ? partial_sums(values, blocks[me], windows[me], which) : zeros_of(values, which.size());
    if (rank != me) recv(comm, part, Rank(static_cast<int>(rank)));
    sums.narrow(0, which.begin, which.size()).add_(part);
  }
  wait_all(sends);
  return sums;
}

}  // namespace tw::layer_parallel
