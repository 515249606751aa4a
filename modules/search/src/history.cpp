// SPDX-License-Identifier: Apache-2.0
#include "history.hpp"

#include <algorithm>

namespace tw::search {

History history_of(const std::vector<JournalFile>& files) {
  History history;
  std::map<int64_t, Interrupted> begun;
  for (const JournalFile& file : files) {
    history.epochs = std::max(history.epochs, file.header.epoch + 1);
    history.next_trial = std::max(history.next_trial, file.header.first_trial);
    for (const Record& record : file.records) {
      const int64_t trial = record.individual.trial;
      if (record.kind == Record::Kind::start) {
        Interrupted& of = begun[trial];
        of = {record.individual, of.attempts + 1, file.header.epoch, file.header.worker};
        history.next_trial = std::max(history.next_trial, trial + 1);
      } else if (record.kind == Record::Kind::end) {
        Individual individual = begun[trial].individual;
        individual.loss = record.individual.loss;
        individual.state = record.individual.state;
        individual.seconds = record.individual.seconds;
        history.ended[trial] = std::move(individual);
        if (!record.message.empty()) history.messages[trial] = record.message;
      }
    }
  }
  for (auto& [trial, interrupted] : begun) {
    if (!history.ended.contains(trial)) history.interrupted.push_back(std::move(interrupted));
  }
  return history;
}

}  // namespace tw::search
