// SPDX-License-Identifier: Apache-2.0
#include "reduce_gradients.hpp"

#include <tw/gradients/part_gradients.hpp>

namespace tw {

void reduce_gradients(Reducer& reducer, const std::vector<NamedTensor>& parameters, int64_t samples) {
  reducer.begin(samples);
  for (int64_t id = 0; id < reducer.size(); ++id) {
    const at::Tensor gradient = gradient_of(parameters[static_cast<size_t>(id)].tensor);
    if (gradient.defined()) {
      reducer.mark_ready(id, gradient);
    } else {
      reducer.mark_unused(id);
    }
  }
  reducer.wait();
}

}  // namespace tw
