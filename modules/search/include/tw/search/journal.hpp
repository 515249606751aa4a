// SPDX-License-Identifier: Apache-2.0
// What a search has done, on disk: a folder with a file for each worker, to which records are only appended.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <tw/evolution/individual.hpp>
#include <vector>

namespace tw::search {

/// Whether a trial may have been why the process that it ran in was lost.
enum class Blame : uint8_t {
  none,    ///< a signal had asked the process to end, or it was another one that ended by itself
  shared,  ///< as may others that ran at the time
  sole,    ///< no other trial that ran may have been
};

/// What a worker wrote, in its order.
struct Record {
  enum class Kind : uint8_t {
    start,       ///< of an evaluation: trial, values, tag; `again` where it had begun before
    end,         ///< loss, objectives, violation, state, seconds of the trial begun last; why it failed; constraints
    report,      ///< of a running trial: step, value
    arrival,     ///< another worker's individual was added here: trial
    departure,   ///< the individual no longer counts here
    adoption,    ///< the individual, known or not, counts here from now on, and this worker is responsible for it
    pause,       ///< of the trial that was running
    resume,      ///< of a paused trial
    copy,        ///< a paused trial goes on from where another one is, with values of its own: trial, step, values, original
    loss,        ///< of the process in which the trial ran: trial, blame. Written when the search goes on
    known = 11,  ///< a result from elsewhere that the search began with. Files hold these numbers; 10 is not used
  };
  Kind kind = Kind::start;
  double time = 0;  ///< seconds since the Unix epoch
  Individual individual = {};
  int32_t from = 0;  ///< island that an adopted one comes from
  bool again = false;
  int64_t step = 0;
  double value = 0;
  int64_t original = -1;
  Blame blame = Blame::none;
  std::string message = {};
  std::vector<double> constraints = {};  ///< values that an evaluation gave
};

/// What a file begins with: whose it is.
struct JournalHeader {
  uint64_t space = 0;  ///< Space::hash()
  uint64_t seed = 0;
  int32_t epoch = 0;  ///< counts the layouts that a search had
  int32_t worker = 0;
  std::vector<int32_t> islands = {};         ///< workers of each
  std::vector<std::string> objectives = {};  ///< SearchOptions::objectives
  int64_t evaluations = 0;                   ///< SearchOptions::evaluations when the epoch began: what its propagators were made for
  int64_t first_trial = 0;                   ///< of the epoch; worker w of n has the trials first_trial + w + k n
  std::vector<int32_t> ranks = {};           ///< of each worker
  std::string breeding = {};                 ///< by which propagator, and why; for readers

  bool operator==(const JournalHeader&) const = default;
};

struct JournalFile {
  std::filesystem::path path;
  JournalHeader header = {};
  std::vector<Record> records = {};
  int64_t bytes = 0;  ///< that are whole: a write that was cut off is left out
};

/// Where the files of `folder` lie, in no order, whether they can be read or not; none where there is no such folder.
std::vector<std::filesystem::path> journal_files(const std::filesystem::path& folder);

/// The contents of the files, by epoch and worker. A file that was cut off in its header is left out.
/// @throws FileError for what cannot be read, is no journal, or is damaged: whole records follow what is none
std::vector<JournalFile> read_journal(const std::filesystem::path& folder);

/// Appends to one file. What write() has returned from is there when the process ends, however it ends.
class JournalWriter {
 public:
  /// @param bytes to keep of a file that is there; 0: a new one, which gets the header. @throws FileError
  JournalWriter(const std::filesystem::path& folder, const JournalHeader& header, int64_t bytes);
  ~JournalWriter();
  JournalWriter(const JournalWriter&) = delete;
  JournalWriter& operator=(const JournalWriter&) = delete;

  void start(const Individual& individual, bool again);
  /// @param constraints values of each, met or not
  void end(const Individual& individual, const std::string& message, const std::vector<double>& constraints = {});
  void report(int64_t trial, int64_t step, double value);
  /// @param kind arrival or departure; pause or resume, without moves
  void note(Record::Kind kind, int64_t trial, int32_t moves = 0);
  /// @param from island
  void adopt(const Individual& individual, int32_t from);
  void copy(const Individual& individual, int64_t step, int64_t original);
  void lose(int64_t trial, Blame blame);
  void know(const Individual& individual);
  /// @throws FileError, such as for a full disk; what has not been written then may be written by another call
  void write();

 private:
  void append(Record record);
  void close_record(size_t at);

  std::filesystem::path path_;
  int fd_ = -1;
  std::vector<std::byte> pending_;
};

}  // namespace tw::search
