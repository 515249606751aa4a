// SPDX-License-Identifier: Apache-2.0
// bench_device allreduce|steps [KIND]: see device.hpp. Uses the accelerator that LibTorch finds, or one of kind KIND; exits with 77 if there is none.
#include "device.hpp"

#include <tw/base/error.hpp>
#include <tw/comm/device.hpp>

namespace {

void place(const at::Tensor& tensor, c10::Device device) {
  const at::NoGradGuard no_grad;
  tensor.set_data(tensor.to(device));
}

int no_device(const tw::Communicator& world, const std::string& why) {
  if (world.rank() == 0) std::cout << "SKIPPED: " << why << std::endl;
  return 77;
}

}  // namespace

int main(int argc, char** argv) {
  const tw::Environment mpi(argc, argv, {.thread_level = tw::ThreadLevel::serialized});  // autograd has a thread for each device
  const tw::Communicator world = mpi.world().dup();
  at::set_num_threads(1);
  c10::Device device(c10::kCPU);
  try {
    device = tw::device_of_rank(world, argc > 2 ? argv[2] : "auto");
  } catch (const tw::Error& error) {  // thrown on all ranks
    return no_device(world, error.what());
  }
  if (device.is_cpu()) return no_device(world, "there is no accelerator");
  tw::benchmark::measure({.comm = world, .device = device, .place = [&](const at::Tensor& tensor) { place(tensor, device); }},
                         argc > 1 ? argv[1] : "");
  return 0;
}
