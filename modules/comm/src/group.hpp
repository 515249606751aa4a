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
  void add(std::unique_ptr<mpi::Transfer> transfer) { transfers_.push_back(std::move(transfer)); }

  bool advance() override {
    std::erase_if(transfers_, [this](const auto& transfer) {
      try {
        return transfer->advance();
      } catch (...) {
        if (!failure_) failure_ = std::current_exception();
        return true;
      }
    });
    if (!transfers_.empty()) return false;
    if (failure_) std::rethrow_exception(failure_);
    return true;
  }

 private:
  std::vector<std::unique_ptr<mpi::Transfer>> transfers_;
  std::exception_ptr failure_;
};

}  // namespace tw
