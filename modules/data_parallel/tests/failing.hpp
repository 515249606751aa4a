// SPDX-License-Identifier: Apache-2.0
// Exceptions at chosen places of a step, on one rank, and what all ranks must see of them.
#pragma once
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <stdexcept>
#include <string>
#include <tw/mpi/error.hpp>
#include <vector>

namespace tw::testing {

/// Where in a step `rank` throws; rank -1: nowhere.
struct Failure {
  enum class Place : uint8_t { model, loss, backward };
  Place place = Place::model;
  int rank = -1;
  bool out_of_memory = false;  ///< the exception is LibTorch's own

  bool is_here(Place where) const { return place == where && world().rank() == rank; }
  std::string text() const { return concat("rank ", rank, " fails"); }
  void raise() const {
    if (out_of_memory) TORCH_CHECK_WITH(OutOfMemoryError, false, text());
    throw std::runtime_error(text());
  }
  void raise_at(Place where) const {
    if (is_here(where)) raise();
  }
};

/// Returns its input; the backward pass throws.
struct FailingBackward : torch::autograd::Function<FailingBackward> {
  static at::Tensor forward(torch::autograd::AutogradContext* /*context*/, const at::Tensor& x, const Failure* failure) {
    current() = *failure;
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/, const torch::autograd::variable_list& gradients) {
    current().raise_at(Failure::Place::backward);
    return {gradients[0], at::Tensor()};
  }
  static Failure& current() {
    static Failure failure;
    return failure;
  }
};

/// The first and the last rank, at each place, with both kinds of exceptions.
inline std::vector<Failure> all_failures() {
  const int last = world().size() - 1;
  std::vector<Failure> all;
  for (const auto place : {Failure::Place::model, Failure::Place::loss, Failure::Place::backward}) {
    all.push_back({place, 0, place == Failure::Place::loss});
    if (last > 0) all.push_back({place, last, place != Failure::Place::loss});
  }
  return all;
}

/// Makes a step that must fail: `failure.rank` gets its own exception, the others a RevokedError with its message.
template <class Step>
void expect_failure(const Failure& failure, const Step& step) {
  std::string message = "nothing thrown";
  bool is_own = false;
  bool is_revoked = false;
  try {
    step();
  } catch (const RevokedError& error) {
    is_revoked = true;
    message = error.what();
  } catch (const c10::OutOfMemoryError& error) {
    is_own = failure.out_of_memory;
    message = error.what();
  } catch (const std::runtime_error& error) {
    is_own = !failure.out_of_memory;
    message = error.what();
  }
  EXPECT_NE(message.find(failure.text()), std::string::npos) << message;
  EXPECT_EQ(is_own, world().rank() == failure.rank) << message;
  EXPECT_EQ(is_revoked, world().rank() != failure.rank) << message;
}

inline void expect_equal_bits(const std::vector<at::Tensor>& ours, const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(ours.size(), expected.size());
  for (size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(ours[i].equal(expected[i])) << "tensor " << i;
}

}  // namespace tw::testing
