// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <filesystem>
#include <string>
#include <tw/mpi/communicator.hpp>
#include <tw/train/memory.hpp>
#include <vector>

namespace tw::train {

/// A timeline for Chrome's about:tracing or ui.perfetto.dev: one process per rank, with rows for computation and communication, and a track of the
/// rank's memory by use.
class Timeline {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Row { compute = 0, communication = 1 };

  /// Sets the origin of times to now, which is about the same moment on all ranks, and checks that rank 0 can write `path`. Collective. @throws Error
  /// on every rank if rank 0 cannot.
  void begin(const Communicator& comm, const std::filesystem::path& path);
  /// Adds a span. Spans after the first million are dropped. @param name a string literal. @param number the step, or the bucket in the row of
  /// communication
  void add(Row row, const char* name, Time begin, Time end, int64_t number);
  /// Adds a memory sample. Samples after the first million are dropped.
  void add(const MemorySample& sample);
  /// Writes the spans and samples of all ranks on rank 0. Times count from begin(), by each node's own clock. Collective.
  /// @throws Error on every rank if rank 0 cannot write.
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
