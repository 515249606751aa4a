// SPDX-License-Identifier: Apache-2.0
#include <tw/comm/threads.hpp>

#include <ATen/Parallel.h>

#include <cstdlib>

namespace tw {

int set_threads_per_rank(const Topology& topology) {
  if (std::getenv("OMP_NUM_THREADS") == nullptr) at::set_num_threads(topology.cores);
  static const bool once = [] {  // LibTorch allows one call
    at::set_num_interop_threads(1);
    return true;
  }();
  static_cast<void>(once);
  return at::get_num_threads();
}

}  // namespace tw
