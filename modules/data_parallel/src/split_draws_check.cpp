// SPDX-License-Identifier: Apache-2.0
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
    const SplitDraws watch;
    pass();
    return watch.draws();
  }();
  const std::string problem = problem_of(allgather_objects(ranks, draws));
  TW_EXPECTS(problem.empty(), problem);
}

}  // namespace tw
