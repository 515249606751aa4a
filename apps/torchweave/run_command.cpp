// SPDX-License-Identifier: Apache-2.0
#include "run_command.hpp"

#include <c10/util/Exception.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <iostream>
#include <tw/base/concat.hpp>
#include <tw/base/suggest.hpp>
#include <tw/base/text_stream.hpp>
#include <tw/version.hpp>

#include "commands.hpp"
#include "launcher_match.hpp"

namespace tw::tool {
namespace {

// The innermost command that the command line names.
const CLI::App& asked_command(const CLI::App& app) { return app.get_subcommands().empty() ? app : asked_command(*app.get_subcommands().front()); }

// Whether this process prints for all. If MPI cannot start, the launcher's variables decide.
bool prints_for_all(Session& session) {
  try {
    return session.is_first();
  } catch (const std::exception&) {
    return is_first_process(variable);
  }
}

// Help, or the error of a command line. Help is printed once, not once per rank.
End explain(const CLI::App& app, const CLI::ParseError& error, bool first_rank) {
  const CLI::App& asked = asked_command(app);
  const std::vector<std::string> rest = app.remaining(/*recurse=*/true);
  const bool wants_command = asked.get_require_subcommand_min() > 0;
  if (wants_command && !rest.empty() && !rest.front().starts_with('-')) {
    std::vector<std::string> names;
    for (const CLI::App* command : asked.get_subcommands(nullptr)) names.push_back(command->get_name());
    return {concat("there is no command '", rest.front(), '\'', suggestion(rest.front(), names)), error.get_exit_code()};
  }
  TextWriter out;
  TextWriter err;
  const int exit_code = app.exit(error, out, err);
  const bool lacks_command = wants_command && rest.empty() && exit_code != 0;
  if (first_rank) std::cout << (lacks_command ? app.help() : out.str()) << std::flush;
  if (lacks_command) return {"", exit_code};
  std::string message = err.str();
  while (message.ends_with('\n')) message.pop_back();
  return {message, exit_code};
}

}  // namespace

End run_command(int argc, const char* const* argv, Session& session) {
  CLI::App app("Distributed training of neural networks over MPI");
  app.set_version_flag("--version", std::string(version_string));
  app.require_subcommand(1);
  add_train(app, session);
  add_search(app, session);
  add_bench(app, session);
  add_checkpoint(app, session);
  CLI::App& plan =
      *app.add_subcommand("plan", "Predict the gain from several ranks, and recommend how to use them; trains nothing")->require_subcommand(1);
  add_plan_pipeline(plan, session);
  add_plan_layers(plan, session);
  add_keys(app, session);
  add_doctor(app, session);
  add_selftest(app, session);
  add_launch(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::RuntimeError& error) {
    return {"", error.get_exit_code()};
  } catch (const CLI::ParseError& error) {
    return explain(app, error, prints_for_all(session));
  } catch (const c10::Error& error) {
    return {error.what_without_backtrace(), 1};
  } catch (const std::exception& error) {
    return {error.what(), 1};
  }
  return {};
}

}  // namespace tw::tool
