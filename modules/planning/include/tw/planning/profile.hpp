// SPDX-License-Identifier: Apache-2.0
// What a model costs, operator by operator: all that a planner knows of it. Values, measured or computed.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tw::pipeline {

/// A cost that grows with the rows of a micro-batch.
struct Affine {
  double fixed = 0;
  double per_row = 0;

  double of(double rows) const noexcept { return fixed + per_row * rows; }
  Affine& operator+=(const Affine& other) noexcept;
  Affine& operator-=(const Affine& other) noexcept;
  bool operator==(const Affine&) const = default;
};

/// Takes the outputs of earlier operators and has one of its own.
struct ProfiledOperator {
  std::string name = {};             ///< unique, without " .. "
  std::vector<int> inputs = {};      ///< earlier operators; -1: the model's input. None, directly or not, is the model's input: see below
  std::vector<int> parameters = {};  ///< as Profile::parameters counts them; an operator may share them with others
  Affine forward = {};               ///< seconds
  Affine backward = {};              ///< seconds, of all gradients
  Affine output_bytes = {};
  Affine saved_bytes = {};      ///< what autograd keeps from the forward to the backward pass; a tensor that several keep counts at one of them
  Affine workspace_bytes = {};  ///< what its backward pass holds at a time besides: cotangents, gradients before they are added up, scratch

  bool operator==(const ProfiledOperator&) const = default;
};

struct ProfiledParameter {
  std::string name = {};
  double bytes = 0;

  bool operator==(const ProfiledParameter&) const = default;
};

/// Operators in a topological order. One that does not depend on the model's input is cheap to have twice: every stage that uses it computes it
/// for itself, and nothing is sent.
struct Profile {
  std::string hash = {};  ///< of the graph that it is of
  Affine input_bytes = {};
  std::vector<ProfiledOperator> operators = {};
  std::vector<ProfiledParameter> parameters = {};
  /// The model's outputs in addition to the last operator's: operators, -1 its input. Stages pass them on to the last one.
  std::vector<int> outputs = {};

  bool operator==(const Profile&) const = default;
  /// @throws ContractError with the first of problems_of()
  void validate() const;
};

/// What is wrong with it, each by field; empty: nothing.
std::vector<std::string> problems_of(const Profile& profile);

/// Costs are pairs: fixed, per row.
std::string to_json(const Profile& profile);
/// @throws Error naming the field
Profile profile_from_json(std::string_view text);

}  // namespace tw::pipeline
