// SPDX-License-Identifier: Apache-2.0
#include "ending.hpp"
#include "gpu_direct.hpp"
#include "launch.hpp"
#include "launcher_match.hpp"
#include "run_command.hpp"
#include "search_desk.hpp"

#include <ATen/DeviceAccelerator.h>

#include <tw/base/log.hpp>

namespace {

// Before MPI is initialised and the command line is read: it has another process do both.
bool is_gpu_direct_test(int argc, char** argv) {
  return argc == 3 && argv[1] == std::string_view("doctor") && argv[2] == std::string_view("--gpu-direct");
}

}  // namespace

int main(int argc, char** argv) {
  if (is_gpu_direct_test(argc, argv)) {
    return tw::tool::run_gpu_direct([&](const auto& test) { test(tw::Environment(argc, argv)); });
  }
  if (tw::tool::is_launch(argc, argv)) return tw::tool::run_launch(argc, argv);
  if (tw::tool::is_search_desk(argc, argv)) return tw::tool::run_search_desk(argc, argv);
  // Autograd's threads reduce gradients that lie on a device.
  const bool has_devices = at::accelerator::deviceCount() > 0;
  tw::Environment mpi(argc, argv, {.thread_level = has_devices ? tw::ThreadLevel::serialized : tw::ThreadLevel::funneled});
  const tw::tool::Ending ending(mpi.world());
  const std::string alone = tw::tool::launcher_mismatch(tw::tool::variable, mpi.world().size());
  if (!alone.empty() && tw::tool::is_first_process(tw::tool::variable)) tw::log_warning(alone);
  const tw::tool::End end = tw::tool::run_command(argc, argv, mpi);
  ending.meet(end.message, end.exit_code);
  return 0;
}
