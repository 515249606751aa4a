// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <tw/mpi/engine.hpp>

namespace tw {

/// Transfers of the chunks of one tensor: at most `window` are under way at once, begun in their order.
class Chunks : public mpi::Transfer {
 public:
  using Begin = std::function<std::unique_ptr<mpi::Transfer>(int64_t chunk)>;
  Chunks(int64_t chunks, int64_t window, Begin begin) : chunks_(chunks), window_(window), begin_(std::move(begin)) {}

  bool advance() override {
    while (true) {
      while (next_ < chunks_ && static_cast<int64_t>(under_way_.size()) < window_) under_way_.push_back(begin_(next_++));
      const size_t before = under_way_.size();
      std::erase_if(under_way_, [](const std::unique_ptr<mpi::Transfer>& chunk) { return chunk->advance(); });
      if (under_way_.empty() && next_ == chunks_) return true;
      if (under_way_.size() == before) return false;
    }
  }

 private:
  const int64_t chunks_;
  const int64_t window_;
  const Begin begin_;
  int64_t next_ = 0;
  std::deque<std::unique_ptr<mpi::Transfer>> under_way_;
};

}  // namespace tw
