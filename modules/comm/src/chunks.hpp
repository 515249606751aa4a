// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <tw/mpi/engine.hpp>

namespace tw {

/// The number of chunks of a tensor in flight at once, counted from the first unfinished one: while one is on the wire, another is reduced. More
/// chunks take more memory and gain nothing.
constexpr int64_t chunks_in_flight = 3;

constexpr int64_t chunk_bytes = int64_t{4} << 20;

/// Transfers of one tensor's chunks, started in order. A chunk starts when the one `chunks_in_flight` before it has ended, so that
/// `chunks_in_flight` sequence numbers are enough to tell their messages apart.
class Chunks : public mpi::Transfer {
 public:
  using Begin = std::function<std::unique_ptr<mpi::Transfer>(int64_t chunk)>;
  Chunks(int64_t chunks, Begin begin) : chunks_(chunks), begin_(std::move(begin)) {}

  bool advance() override {
    while (true) {
      const int64_t before = first_;
      for (int64_t chunk = first_; chunk < std::min(chunks_, first_ + chunks_in_flight); ++chunk) advance(chunk);
      while (first_ < chunks_ && transfers_.contains(first_) && !transfers_.at(first_)) transfers_.erase(first_++);
      if (first_ == chunks_) return true;
      if (first_ == before) return false;
    }
  }

 private:
  void advance(int64_t chunk) {
    auto [transfer, is_new] = transfers_.try_emplace(chunk);
    if (is_new) transfer->second = begin_(chunk);
    if (transfer->second && transfer->second->advance()) transfer->second.reset();
  }

  const int64_t chunks_;
  const Begin begin_;
  int64_t first_ = 0;                                            // first chunk that has not ended
  std::map<int64_t, std::unique_ptr<mpi::Transfer>> transfers_;  // null: it has ended
};

}  // namespace tw
