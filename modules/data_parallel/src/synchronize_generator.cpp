// SPDX-License-Identifier: Apache-2.0
#include <ATen/CPUGeneratorImpl.h>

#include <mutex>
#include <tw/comm/collectives.hpp>
#include <tw/data_parallel/synchronize.hpp>

namespace tw {

void synchronize_generator(const Communicator& comm, Rank root) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  at::Tensor state;
  {
    const std::lock_guard lock(generator.mutex());
    state = generator.get_state();
  }
  broadcast(comm, state, root);
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

}  // namespace tw
