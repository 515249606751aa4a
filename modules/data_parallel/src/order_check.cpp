// SPDX-License-Identifier: Apache-2.0
#include "order_check.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <tw/comm/collectives.hpp>

namespace tw {

int64_t OrderCheck::begin(int64_t what) {
  if (comm_.size() > 1) {
    const at::Tensor of_ranks = at::empty({comm_.size()}, at::TensorOptions().dtype(at::kLong));
    of_ranks.mutable_data_ptr<int64_t>()[static_cast<int>(comm_.rank())] = what;
    open_.push_back({of_ranks, iallgather(comm_, of_ranks.narrow(0, static_cast<int>(comm_.rank()), 1), of_ranks)});
  }
  return begun_++;
}

std::optional<std::vector<int64_t>> OrderCheck::difference_up_to(int64_t event) {
  while (!open_.empty() && begun_ - static_cast<int64_t>(open_.size()) <= event) {
    Event first = std::move(open_.front());
    open_.pop_front();
    first.exchange.wait();
    const auto* const begin = first.of_ranks.const_data_ptr<int64_t>();
    const std::vector<int64_t> all(begin, begin + comm_.size());
    if (std::any_of(all.begin(), all.end(), [&](int64_t each) { return each != all.front(); })) return all;
  }
  return std::nullopt;
}

}  // namespace tw
