// SPDX-License-Identifier: Apache-2.0
#include <tw/comm/threads.hpp>

#include <ATen/Parallel.h>

#include <cstdlib>
#include <tw/base/contract.hpp>

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

int device_of_rank(const Topology& topology, int devices) {
  TW_EXPECTS(devices > 0, "node ", topology.node, " has no device for local rank ", topology.local_rank);
  return topology.local_rank % devices;
}

}  // namespace tw
