// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"
#include "train_config.hpp"

#include <iostream>
#include <tw/mpi/environment.hpp>

namespace tw::tool {

void add_keys(CLI::App& app, Environment& mpi) {
  CLI::App* command = app.add_subcommand("keys", "Print the keys of a configuration of train, with defaults and meanings, as a table in Markdown");
  command->callback([&mpi] {
    if (mpi.world().rank() != 0) return;
    TrainConfig defaults;
    OptionTable keys;
    visit(defaults, keys);
    std::cout << keys.table;
  });
}

}  // namespace tw::tool
