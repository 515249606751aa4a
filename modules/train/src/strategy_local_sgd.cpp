// SPDX-License-Identifier: Apache-2.0
#include <tw/data_parallel/local_sgd.hpp>

#include "infrequent.hpp"

namespace tw::train {

std::unique_ptr<Strategy> make_local_sgd(const StrategySetup& setup) {
  return std::make_unique<Infrequent<LocalSgd>>(setup, LocalSgdOptions{.period = setup.options.period});
}

}  // namespace tw::train
