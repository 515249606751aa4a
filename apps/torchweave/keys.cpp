// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"
#include "search_config.hpp"
#include "train_config.hpp"
#include "written_output.hpp"

#include <iostream>
#include <memory>

namespace tw::tool {

void add_keys(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand("keys", "Print the keys of a configuration, with defaults and meanings, as a table in Markdown");
  const auto of = std::make_shared<std::string>("train");
  command->add_option("command", *of, "Command whose keys are printed")->check(CLI::IsMember({"train", "search"}))->capture_default_str();
  command->callback([of, &session] {
    if (!session.is_first()) return;
    OptionTable keys;
    TrainConfig training;
    SearchConfig search;
    if (*of == "train") visit(training, keys);
    if (*of == "search") keys.group("search", search);
    std::cout << keys.table;
    expect_output_written();
  });
}

}  // namespace tw::tool
