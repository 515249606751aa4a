// SPDX-License-Identifier: Apache-2.0
#include "ties.hpp"

#include <algorithm>
#include <map>
#include <sstream>
#include <tw/base/contract.hpp>
#include <tw/comm/objects.hpp>

namespace tw::pipeline {
namespace {

/// A line for each parameter: the name by which stages know it, if it is tied, and that it has here. Names have neither tabs nor line breaks.
std::string lines_of(const StageModel& model) {
  std::ostringstream lines;
  for (const auto& p : model.module->named_parameters()) {
    const auto tie = model.tied.find(p.key());
    lines << (tie == model.tied.end() ? "" : tie->second) << '\t' << p.key() << '\n';
  }
  for (const auto& [name, of_all] : model.tied) {
    if (!model.module->named_parameters().contains(name)) lines << of_all << "\t\n";  // not there
  }
  return std::move(lines).str();
}

}  // namespace

std::vector<Tie> agree_on_ties(const Communicator& comm, const StageRanks& ranks, const StageModel& model) {
  const std::vector<std::string> lines = allgather_strings(comm, lines_of(model));
  std::map<std::string, Tie> ties;
  std::map<std::string, int> homes;  // of untied names
  for (int stage = 0; stage < ranks.stages(); ++stage) {
    std::istringstream in(lines[static_cast<size_t>(ranks.first_rank(stage))]);
    for (std::string line; std::getline(in, line);) {
      const size_t tab = line.find('\t');
      const std::string of_all = line.substr(0, tab);
      const std::string name = line.substr(tab + 1);
      TW_EXPECTS(!name.empty(), "stage ", stage, " has no parameter that is tied as '", of_all, "'");
      if (of_all.empty()) {
        const auto [home, is_new] = homes.emplace(name, stage);
        TW_EXPECTS(is_new, "stages ", home->second, " and ", stage, " both have a parameter '", name, "': say so in StageModel::tied");
        continue;
      }
      Tie& tie = ties[of_all];
      tie.name = of_all;
      if (std::find(tie.names.begin(), tie.names.end(), name) == tie.names.end()) tie.names.push_back(name);
      if (tie.stages.empty() || tie.stages.back() != stage) tie.stages.push_back(stage);
    }
  }
  std::vector<Tie> all;
  for (auto& [name, tie] : ties) {
    TW_EXPECTS(tie.stages.size() > 1, "parameter '", name, "' is tied on stage ", tie.stages.front(), " alone");
    TW_EXPECTS(!homes.contains(name), "stage ", homes[name], " has a parameter '", name, "' that it does not tie, as other stages do");
    all.push_back(std::move(tie));
  }
  return all;
}

}  // namespace tw::pipeline
