// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <exception>
#include <memory>
#include <tw/mpi/engine.hpp>
#include <vector>

namespace tw {

/// Several transfers as one. Where one fails, the others still end, since their peers count on them; then it throws the first failure.
class Group : public mpi::Transfer {
 public:
  /// @param begin gives a transfer. What it throws after another that has begun is kept until that one has ended: MPI may touch its memory till
  /// then.
  template <class Begin>
  void add(Begin begin) {
    try {
      parts_.push_back({begin()});
    } catch (...) {
      if (parts_.empty()) throw;
      fail();
    }
  }

  bool advance() override {
    bool over = true;
    for (Part& part : parts_) {
      if (part.over) continue;
      try {
        part.over = part.transfer->advance();
      } catch (...) {
        part.over = true;
        fail();
      }
      over = over && part.over;
    }
    if (over && failure_) std::rethrow_exception(failure_);
    return over;
  }

 private:
  struct Part {
    std::unique_ptr<mpi::Transfer> transfer;  // one that failed too stays as long as the group: MPI may still touch its memory
    bool over = false;
  };

  void fail() {
    if (!failure_) failure_ = std::current_exception();
  }

  std::vector<Part> parts_;
  std::exception_ptr failure_;
};

}  // namespace tw
