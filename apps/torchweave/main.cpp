// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"
#include "ending.hpp"
#include "gpu_direct.hpp"
#include "launch.hpp"
#include "launcher_match.hpp"
#include "search_desk.hpp"

#include <ATen/DeviceAccelerator.h>
#include <c10/util/Exception.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <iostream>
#include <tw/base/concat.hpp>
#include <tw/base/log.hpp>
#include <tw/base/suggest.hpp>
#include <tw/base/text_stream.hpp>
#include <tw/mpi/environment.hpp>

namespace {

struct End {
  std::string message;
  int exit_code = 0;
};

// Of a word that stands where a command is wanted; "" where there is none.
std::string unknown_command(const CLI::App& app) {
  const CLI::App* asked = &app;
  while (!asked->get_subcommands().empty()) asked = asked->get_subcommands().front();
  const std::vector<std::string> rest = app.remaining(/*recurse=*/true);
  if (asked->get_require_subcommand_min() == 0 || rest.empty() || rest.front().starts_with('-')) return "";
  std::vector<std::string> names;
  for (const CLI::App* command : asked->get_subcommands(nullptr)) names.push_back(command->get_name());
  return tw::concat("there is no command '", rest.front(), "'; did you mean '", tw::nearest_name(rest.front(), names), "'?");
}

// --help and mistakes alike: once, not once a rank.
End explain(const CLI::App& app, const CLI::ParseError& error, bool first_rank) {
  if (const std::string why = unknown_command(app); !why.empty()) return {why, error.get_exit_code()};
  tw::TextWriter out;
  tw::TextWriter err;
  const int exit_code = app.exit(error, out, err);
  if (first_rank) std::cout << out.str() << std::flush;
  std::string message = err.str();
  while (message.ends_with('\n')) message.pop_back();
  return {message, exit_code};
}

End run(CLI::App& app, int argc, char** argv, bool first_rank) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return explain(app, error, first_rank);
  } catch (const c10::Error& error) {
    return {error.what_without_backtrace(), 1};
  } catch (const std::exception& error) {
    return {error.what(), 1};
  }
  return {};
}

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
  CLI::App app("Distributed training of neural networks over MPI");
  app.set_version_flag("--version", TW_VERSION);
  app.require_subcommand(1);
  tw::tool::add_train(app, mpi);
  tw::tool::add_search(app, mpi);
  tw::tool::add_bench(app, mpi);
  tw::tool::add_checkpoint(app, mpi);
  tw::tool::add_plan(app, mpi);
  tw::tool::add_keys(app, mpi);
  tw::tool::add_doctor(app, mpi);
  tw::tool::add_launch(app);
  const End end = run(app, argc, argv, mpi.world().rank() == 0);
  ending.meet(end.message, end.exit_code);
  return 0;
}
