// SPDX-License-Identifier: Apache-2.0
// device_benchmarks allreduce|steps: checks that the device benchmarks run, on the simulated accelerator. Their figures are meaningless.
#include <accelerator.hpp>
#include <device.hpp>

int main(int argc, char** argv) {
  const tw::Environment mpi(argc, argv, {.thread_level = tw::ThreadLevel::serialized});
  const tw::Communicator world = mpi.world().dup();
  tw::testing::accelerator::install(2);
  const c10::Device device = tw::testing::accelerator::device(world.rank() % 2);
  c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
  const auto place = [&](const at::Tensor& tensor) { tw::testing::accelerator::move(tensor, device); };
  tw::benchmark::measure({.comm = world, .device = device, .place = place, .quick = true}, argc > 1 ? argv[1] : "");
  return 0;
}
