// SPDX-License-Identifier: Apache-2.0
#include "module_tensors.hpp"
#include "reduce_gradients.hpp"

#include <ATen/core/grad_mode.h>

#include <tw/data_parallel/allreduce_gradients.hpp>
#include <tw/gradients/part_gradients.hpp>

namespace tw {

void allreduce_gradients(const Communicator& comm, const std::vector<NamedTensor>& tensors, Reduction reduction, int64_t samples,
                         const ModelPartsList& parts) {
  const at::NoGradGuard no_grad;
  const std::vector<NamedTensor> parameters = trained(tensors);
  const ReducerOptions once_with_all_gradients{.reduction = reduction,
                                               .overlap = false,
                                               .shared_memory = false,
                                               .parts = parts,
                                               .device = device_of(comm, "allreduce_gradients()", parameters)};
  Reducer reducer(comm, specs_of(parameters), once_with_all_gradients);
  reduce_gradients(reducer, parameters, samples);
  for (int64_t id = 0; id < reducer.size(); ++id) {
    if (!reducer.used(id)) continue;
    const at::Tensor& parameter = parameters[static_cast<size_t>(id)].tensor;
    if (parameter.grad().defined()) {
      parameter.mutable_grad().copy_(reducer.gradient(id));
    } else {
      set_gradient(parameter, reducer.gradient(id).clone());
    }
  }
}

void allreduce_gradients(const Communicator& comm, const NamedParameters& parameters, Reduction reduction, int64_t samples,
                         const ModelPartsList& parts) {
  allreduce_gradients(comm, tensors_of(parameters), reduction, samples, parts);
}

}  // namespace tw
