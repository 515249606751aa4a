// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <tw/mpi/engine.hpp>
#include <vector>

namespace tw {

/// Several transfers as one.
class Group : public mpi::Transfer {
 public:
  void add(std::unique_ptr<mpi::Transfer> transfer) { transfers_.push_back(std::move(transfer)); }
  bool advance() override {
    std::erase_if(transfers_, [](const auto& transfer) { return transfer->advance(); });
    return transfers_.empty();
  }

 private:
  std::vector<std::unique_ptr<mpi::Transfer>> transfers_;
};

}  // namespace tw
