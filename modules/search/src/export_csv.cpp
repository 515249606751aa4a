// SPDX-License-Identifier: Apache-2.0
#include <tw/base/csv_field.hpp>
#include <tw/base/file.hpp>
#include <tw/search/report.hpp>
#include <unordered_map>

#include "exported.hpp"
#include "finite_text.hpp"

namespace tw::search {
std::string to_csv(const Ledger& ledger, const Space& space) {
  std::unordered_map<int64_t, int64_t> migrations;
  for (const Migration& each : ledger.migrations) ++migrations[each.trial];
  const bool several = ledger.objectives.size() > 1;
  const std::set<int64_t> front = trials_on_front(ledger);
  std::string csv = "trial,state,loss,seconds,worker,island,epoch,attempts,begin,end,reports,migrations,message,violation,ranks";
  if (several) csv += ",front";
  for (size_t i = 0; several && i < ledger.objectives.size(); ++i) csv += ',' + csv_field("objective." + ledger.objectives[i]);
  const size_t constraints = constraints_of(ledger);
  for (size_t i = 1; i <= constraints; ++i) csv += ",constraint." + std::to_string(i);
  for (const Parameter& parameter : space.parameters()) csv += ',' + csv_field("parameter." + parameter.name);
  csv += "\r\n";
  for (const LedgerEntry& entry : ledger.trials) {
    const Individual& individual = entry.individual;
    const auto moved = migrations.find(individual.trial);
    csv += std::to_string(individual.trial) + ',' + name_of(individual.state) + ',' + finite_text(individual.loss) + ',';
    csv += (entry.has_ended() ? finite_text(individual.seconds) : "") + ',';
    for (const int64_t each : {entry.worker, individual.island, entry.epoch, entry.attempts}) csv += std::to_string(each) + ',';
    csv += finite_text(entry.begin) + ',' + finite_text(entry.end) + ',' + std::to_string(entry.reports.size()) + ',';
    csv += std::to_string(moved == migrations.end() ? 0 : moved->second) + ',' + csv_field(entry.message);
    csv += ',' + (entry.has_ended() ? finite_text(individual.violation) : "");
    csv += ',' + std::to_string(ranks_of(ledger, entry));
    if (several) csv += front.contains(individual.trial) ? ",1" : ",0";
    for (size_t i = 0; several && i < ledger.objectives.size(); ++i) {
      csv += ',' + (i < individual.objectives.size() ? finite_text(individual.objectives[i]) : "");
    }
    for (size_t i = 0; i < constraints; ++i) csv += ',' + (i < entry.constraints.size() ? finite_text(entry.constraints[i]) : "");
    for (size_t i = 0; i < space.size(); ++i) {
      const double value = individual.values[i];
      csv += ',' + (std::isnan(value) ? "" : csv_field(space.parameters()[i].text_of(value)));
    }
    csv += "\r\n";
  }
  return csv;
}

void export_csv(const Ledger& ledger, const Space& space, const std::filesystem::path& path) { replace_file(path, to_csv(ledger, space)); }

}  // namespace tw::search
