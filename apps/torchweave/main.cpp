// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"

#include <c10/util/Exception.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <iostream>
#include <sstream>
#include <tw/mpi/environment.hpp>

int main(int argc, char** argv) {
  tw::Environment mpi(argc, argv);
  CLI::App app("Distributed training of neural networks over MPI");
  app.set_version_flag("--version", TW_VERSION);
  app.require_subcommand(1);
  tw::tool::add_train(app, mpi);
  tw::tool::add_search(app, mpi);
  tw::tool::add_bench(app, mpi);
  tw::tool::add_checkpoint(app, mpi);
  tw::tool::add_plan(app, mpi);
  tw::tool::add_doctor(app, mpi);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out;  // --help and mistakes alike, once, not once a rank
    std::ostringstream err;
    const int code = app.exit(error, out, err);
    if (mpi.world().rank() == 0) {
      std::cout << out.str();
      std::cerr << err.str();
    }
    return code;
  } catch (const c10::Error& error) {
    mpi.abort(error.what_without_backtrace());
  } catch (const std::exception& error) {
    mpi.abort(error.what());
  }
  return 0;
}
