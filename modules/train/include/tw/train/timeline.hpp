// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <filesystem>
#include <string>
#include <tw/mpi/communicator.hpp>
#include <tw/train/memory.hpp>
#include <vector>

namespace tw::train {

/// What this rank did when, for Chrome's about:tracing or ui.perfetto.dev: one process a rank, with rows for computing and for
/// communication, and a track of its memory, by use.
class Timeline {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Row { compute = 0, communication = 1 };

  /// Counts times from now, which is about the same moment on all ranks, and looks whether rank 0 can write `path`. Collective.
  /// @throws FileError on every rank when it cannot.
  void begin(const Communicator& comm, const std::filesystem::path& path);
  /// Adds a span. After a million of them the rest is left out.
  void add(Row row, const char* name, Time begin, Time end, int64_t number);
  /// Adds what this rank held from a moment on. After a million of them the rest is left out.
  void add(const MemorySample& sample);
  /// Writes the spans and samples of all ranks on rank 0; times count from begin(), by each node's own clock. Collective.
  /// @throws FileError on every rank when rank 0 cannot write.
  void write(const Communicator& comm) const;

 private:
  struct Span {
    Row row;
    const char* name;  // a literal
    Time begin;
    Time end;
    int64_t number;
  };
  std::filesystem::path path_;
  Time origin_;
  std::vector<Span> spans_;
  std::vector<MemorySample> samples_;
};

}  // namespace tw::train
