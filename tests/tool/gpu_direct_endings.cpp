// SPDX-License-Identifier: Apache-2.0
// gpu_direct_endings ENDING: what `torchweave doctor --gpu-direct` does, with simulated devices and an MPI that knows them well, badly or not at all.
#include <accelerator.hpp>
#include <string>

#include "gpu_direct.hpp"

int main(int argc, char** argv) {
  namespace accelerator = tw::testing::accelerator;
  const std::string ending = argc > 1 ? argv[1] : "";
  accelerator::install(ending == "no_device" ? 0 : 2);
  if (ending == "passed") accelerator::let_mpi_see(accelerator::MpiSight::memory);
  if (ending == "wrong_data") accelerator::let_mpi_see(accelerator::MpiSight::shifted);
  tw::EnvironmentOptions options;
  if (ending == "not_aware") options.device_aware = false;
  return tw::tool::run_gpu_direct([&](const auto& test) { test(tw::Environment(argc, argv, options)); });
}
