// SPDX-License-Identifier: Apache-2.0
// The history of a search on disk: a folder of append-only files with records. Each worker has one file per epoch (JournalHeader::epoch).
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <tw/evolution/individual.hpp>
#include <vector>

namespace tw::search {

/// Whether a trial may have caused the loss of its process.
enum class Blame : uint8_t {
  none,    ///< not this trial: a signal asked its process to end, for example after another process had crashed
  shared,  ///< this trial or another that ran at the time may have caused the loss
  sole,    ///< only this trial can have caused the loss
};

/// One entry of a worker's file.
struct Record {
  /// The event and, after the colon, the fields that hold its data. Files store these numbers; 10 is unused.
  enum class Kind : uint8_t {
    start,       ///< an evaluation begins: trial, values, tag, `again` (whether the trial had begun before)
    end,         ///< a trial ends: trial, loss, objectives, violation, state, seconds, message (why it failed or is infeasible), constraints
    report,      ///< a running trial reports: trial, step, value
    arrival,     ///< another worker's individual was added to this worker's island: trial, moves
    departure,   ///< an individual no longer counts on this island, because it has moved or a copy has replaced it: trial, moves
    adoption,    ///< an individual, perhaps known before, now counts on this island, and this worker is responsible for it: individual, from
    pause,       ///< the running trial pauses: trial
    resume,      ///< a paused trial resumes: trial
    copy,        ///< a paused trial continues from the state of trial `original`, with new values: trial, step, values, original
    loss,        ///< a trial's process was lost: trial, blame. Written when the search resumes
    known = 11,  ///< a result from SearchOptions::warm_start: individual
  };
  Kind kind = Kind::start;
  double time = 0;  ///< seconds since the Unix epoch
  Individual individual = {};
  int32_t from = 0;  ///< island from which an adopted individual comes
  bool again = false;
  int64_t step = 0;
  double value = 0;
  int64_t original = -1;
  Blame blame = Blame::none;
  std::string message = {};
  std::vector<double> constraints = {};  ///< constraint values that an evaluation returned
};

/// The header of a file: the search and the worker to which the file belongs.
struct JournalHeader {
  uint64_t space = 0;  ///< Space::hash()
  uint64_t seed = 0;
  int32_t epoch = 0;  ///< number of this layout of islands and workers in the search, from 0
  int32_t worker = 0;
  std::vector<int32_t> islands = {};         ///< number of workers of each island
  std::vector<std::string> objectives = {};  ///< SearchOptions::objectives
  int64_t evaluations = 0;                   ///< SearchOptions::evaluations when the epoch began; the propagators were made for this number
  int64_t first_trial = 0;                   ///< first trial of the epoch; worker w of n has the trials first_trial + w + k * n, k = 0, 1, ...
  std::vector<int32_t> ranks = {};           ///< number of ranks of each worker
  std::string propagator_reason = {};        ///< the propagator and the reason for choosing it, for display only

  bool operator==(const JournalHeader&) const = default;
};

struct JournalFile {
  std::filesystem::path path;
  JournalHeader header = {};
  std::vector<Record> records = {};
  int64_t bytes = 0;  ///< bytes up to the end of the last complete record, without a write that was cut off
};

/// Paths of the journal files in `folder`, in no particular order, readable or not. Empty if the folder does not exist.
std::vector<std::filesystem::path> journal_files(const std::filesystem::path& folder);

/// Reads all journal files in `folder`, sorted by epoch and worker. Leaves out files whose header was cut off.
/// @throws FileError for a file that cannot be read, is not a journal, or is damaged (a complete record follows an invalid one)
std::vector<JournalFile> read_journal(const std::filesystem::path& folder);

/// Appends to one file. Records that write() has written survive even a crash of the process.
class JournalWriter {
 public:
  /// @param bytes number of bytes to keep of an existing file; 0: create a new one with the header. @throws FileError
  JournalWriter(const std::filesystem::path& folder, const JournalHeader& header, int64_t bytes);
  ~JournalWriter();
  JournalWriter(const JournalWriter&) = delete;
  JournalWriter& operator=(const JournalWriter&) = delete;

  void start(const Individual& individual, bool again);
  /// @param constraints the value of each constraint, met or not
  void end(const Individual& individual, const std::string& message, const std::vector<double>& constraints = {});
  void report(int64_t trial, int64_t step, double value);
  /// @param kind arrival, departure, pause or resume. @param moves only for arrival and departure
  void note(Record::Kind kind, int64_t trial, int32_t moves = 0);
  /// @param from island that the individual comes from
  void adopt(const Individual& individual, int32_t from);
  void copy(const Individual& individual, int64_t step, int64_t original);
  void record_loss(int64_t trial, Blame blame);
  void record_known(const Individual& individual);
  /// Writes the records that the functions above have added. @throws FileError, for example if the disk is full; another call may then write the rest
  void write();

 private:
  void append(Record record);
  void close_record(size_t at);

  std::filesystem::path path_;
  int fd_ = -1;
  std::vector<std::byte> pending_;
};

}  // namespace tw::search
