// SPDX-License-Identifier: Apache-2.0
#include <c10/util/ScopeExit.h>

#include <string>
#include <tw/base/contract.hpp>
#include <tw/comm/typed_objects.hpp>
#include <tw/data_parallel/split_draws_check.hpp>
#include <vector>

#include "split_draws.hpp"

namespace tw {

void SplitDrawsCheck::run(const Communicator& ranks, int64_t modes, const std::function<void()>& pass) {
  if (ranks.size() == 1 || !checked_.insert(modes).second) return pass();
  const std::vector<Draw> draws = [&] {
    SplitDraws watch;
    watch_ = &watch;
    const auto no_longer = c10::make_scope_exit([this] { watch_ = nullptr; });
    pass();
    return watch.draws();
  }();
  const std::string problem = problem_of(allgather_objects(ranks, draws));
  TW_EXPECTS(problem.empty(), problem);
}

void SplitDrawsCheck::leave_out(const std::function<void()>& call) const {
  if (watch_ == nullptr) return call();
  watch_->pause(true);
  const auto go_on = c10::make_scope_exit([this] { watch_->pause(false); });
  call();
}

}  // namespace tw
