// SPDX-License-Identifier: Apache-2.0
#include "search_desk.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/search/enqueue.hpp>
#include <tw/search/status.hpp>
#include <tw/state/directory_lock.hpp>
#include <vector>

namespace tw::tool {
namespace {

using search::NamedTexts;

bool is_option(std::string_view argument, std::string_view name) {
  return argument == name || (argument.starts_with(name) && argument[name.size()] == '=');
}

/// {"lr": 1e-3, "optimizer": "sgd"}
NamedTexts configuration_in(const std::string& text) {
  try {
    NamedTexts texts;
    for (const auto& [name, value] : nlohmann::json::parse(text).get<std::map<std::string, nlohmann::json>>())
      texts[name] = value.is_string() ? value.get<std::string>() : value.dump();
    return texts;
  } catch (const nlohmann::json::exception&) {
    throw Error(concat("'", text, "' is no configuration, such as {\"optimizer.lr\": 1e-3}"));
  }
}

/// Of a file, one a line.
std::vector<std::string> configurations_of(const std::string& text) {
  if (text.starts_with('{')) return {text};
  std::ifstream in(text);
  if (!in) throw FileError(text, 0, "cannot be opened; a configuration is a JSON object, such as {\"optimizer.lr\": 1e-3}");
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) lines.push_back(line);
  }
  return lines;
}

void enqueue_all(const std::vector<std::string>& texts, const std::string& folder) {
  std::vector<NamedTexts> configurations;  // all are read before any is put in
  for (const std::string& text : texts) {
    for (const std::string& line : configurations_of(text)) configurations.push_back(configuration_in(line));
  }
  for (const NamedTexts& each : configurations) search::enqueue(folder, each);
  if (!texts.empty()) std::cout << "put in: " << configurations.size() << std::endl;
}

}  // namespace

bool is_search_desk(int argc, char** argv) {
  const std::span arguments(argv, static_cast<size_t>(argc));
  if (argc < 2 || std::string_view(argv[1]) != "search") return false;
  return std::ranges::any_of(arguments.subspan(2), [](const char* each) { return is_option(each, "--status") || is_option(each, "--enqueue"); });
}

int run_search_desk(int argc, char** argv) {
  CLI::App app("Ask how far a search has come, or put trials into it", "torchweave search");
  std::string folder;
  std::vector<std::string> texts;
  bool asks = false;
  auto* status =
      app.add_flag("--status", asks, "How far the search in FOLDER has come: trials by state, the best one, those that run, and what is left");
  auto* enqueue = app.add_option("--enqueue", texts,
                                 "Have the search in FOLDER try a configuration next: a JSON object, or a file with one a line; may be given several "
                                 "times. What it does not name is where the space starts, or in the middle of its scale");
  enqueue->allow_extra_args(false)->excludes(status);
  app.add_option("folder", folder, "That of the search's journal")->required();
  try {
    app.parse(argc - 1, argv + 1);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  try {
    enqueue_all(texts, folder);
    if (asks) {
      const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
      std::cout << search::status_text(folder, now, is_in_use(folder)) << std::flush;
    }
  } catch (const std::exception& error) {
    std::cerr << "torchweave: " << error.what() << std::endl;
    return 1;
  }
  return 0;
}

}  // namespace tw::tool
