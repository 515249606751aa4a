// SPDX-License-Identifier: Apache-2.0
#include "search_commands.hpp"

#include <chrono>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/search/enqueue.hpp>
#include <tw/search/status.hpp>
#include <tw/state/directory_lock.hpp>

namespace tw::tool {
namespace {

using search::NamedTexts;

/// {"lr": 1e-3, "optimizer": "sgd"}
NamedTexts configuration_in(const std::string& text) {
  try {
    NamedTexts texts;
    for (const auto& [name, value] : nlohmann::json::parse(text).get<std::map<std::string, nlohmann::json>>())
      texts[name] = value.is_string() ? value.get<std::string>() : value.dump();
    return texts;
  } catch (const nlohmann::json::exception&) {
    throw Error(concat("'", text, "' is not a configuration; expected a JSON object, such as {\"optimizer.lr\": 1e-3}"));
  }
}

/// The configurations that `text` names: itself, or the lines of a file.
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

}  // namespace

void print_search_status(const std::string& folder) {
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::cout << search::status_text(folder, now, is_in_use(folder)) << std::flush;
}

void enqueue_trials(const std::vector<std::string>& texts, const std::string& folder) {
  std::vector<NamedTexts> configurations;  // all are read before the first is written
  for (const std::string& text : texts) {
    for (const std::string& line : configurations_of(text)) configurations.push_back(configuration_in(line));
  }
  for (const NamedTexts& each : configurations) search::enqueue(folder, each);
  std::cout << "configurations enqueued: " << configurations.size() << std::endl;
}

}  // namespace tw::tool
