// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <tw/mpi/engine.hpp>
#include <tw/mpi/library.hpp>
#include <utility>

#include "runtime.hpp"

namespace tw::mpi {

/// What `make(comm)` makes, once no collective of `comm` is deferred.
class InOrder : public Transfer {
 public:
  using Make = std::function<std::unique_ptr<Transfer>(const Communicator& comm)>;
  InOrder(const Communicator& comm, Make make) : comm_(borrow(comm)), make_(std::move(make)) {}

  bool advance() override {
    if (!transfer_) {
      if (*comm_.state()->deferred > 0) return false;
      transfer_ = make_(comm_);
    }
    return transfer_->advance();
  }

 private:
  const Communicator comm_;
  const Make make_;
  std::unique_ptr<Transfer> transfer_;
};

inline std::unique_ptr<Transfer> in_order(const Communicator& comm, InOrder::Make make) {
  if (*comm.state()->deferred == 0) return make(comm);
  return std::make_unique<InOrder>(comm, std::move(make));
}

}  // namespace tw::mpi
