// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <tw/mpi/engine.hpp>

namespace tw {

/// A transfer, and a function to run when it has ended successfully.
class WithEnding : public mpi::Transfer {
 public:
  WithEnding(std::unique_ptr<mpi::Transfer> transfer, std::function<void()> ending) : transfer_(std::move(transfer)), ending_(std::move(ending)) {}
  bool advance() override {
    if (!transfer_->advance()) return false;
    ending_();
    return true;
  }

 private:
  std::unique_ptr<mpi::Transfer> transfer_;
  std::function<void()> ending_;
};

}  // namespace tw
