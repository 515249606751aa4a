// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <exception>
#include <memory>
#include <tw/mpi/engine.hpp>
#include <vector>

namespace tw {

/// Several transfers as one. If one fails, the others still run to their end, because their peers depend on them. Then it throws the first failure.
class Group : public mpi::Transfer {
 public:
  /// @param begin returns a transfer. If it throws after another transfer has started, the exception is kept until that one ends: MPI may touch its
  /// memory until then.
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
    std::unique_ptr<mpi::Transfer> transfer;  // kept as long as the group even after failure: MPI may still touch its memory
    bool over = false;
  };

  void fail() {
    if (!failure_) failure_ = std::current_exception();
  }

  std::vector<Part> parts_;
  std::exception_ptr failure_;
};

}  // namespace tw
