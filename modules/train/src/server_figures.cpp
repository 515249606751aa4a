// SPDX-License-Identifier: Apache-2.0
#include "server_figures.hpp"

#include <algorithm>

#include "evaluate.hpp"

namespace tw::train {

ServerFigures figures_of(const parameter_server::Traffic& traffic, const Communicator& comm, Seconds time) {
  const double exchanges = traffic.pushes + traffic.pulls > 0 ? 1 : 0;  // the first rank of each group does
  std::vector<double> numbers{static_cast<double>(traffic.pushes), static_cast<double>(traffic.pulls), traffic.waited / time, exchanges};
  numbers.insert(numbers.end(), traffic.staleness.begin(), traffic.staleness.end());
  numbers = sum_over_ranks(comm, numbers);
  return {.pushes_per_s = numbers[0] / time.count(),
          .pulls_per_s = numbers[1] / time.count(),
          .waiting_share = numbers[2] / std::max(1.0, numbers[3]),
          .staleness = {numbers.begin() + 4, numbers.end()}};
}

}  // namespace tw::train
