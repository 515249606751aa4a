// SPDX-License-Identifier: Apache-2.0
// The costs of a model by operator, measured or computed: the planner's input. Value types.
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

/// An operator: uses outputs of earlier operators and has one output.
struct ProfiledOperator {
  std::string name = {};             ///< unique, without " .. "
  std::vector<int> inputs = {};      ///< indices of earlier operators; -1: the model's input, on which an operator need not depend, see Profile
  std::vector<int> parameters = {};  ///< indices in Profile::parameters; operators may share them
  Affine forward = {};               ///< seconds
  Affine backward = {};              ///< seconds, for all gradients
  Affine weights = {};               ///< the part of `backward` that only gradients of parameters need, and that can run later
  Affine output_bytes = {};
  Affine saved_bytes = {};      ///< saved by autograd for the backward pass; a tensor saved by several operators counts once
  Affine workspace_bytes = {};  ///< peak of other memory in the backward pass: cotangents, gradients before accumulation, scratch
  /// Bytes held until the part `weights` runs, if it runs later than the rest of `backward`: the operator's inputs and the cotangent of its output.
  /// An input of several operators counts once.
  Affine waiting_bytes = {};

  bool operator==(const ProfiledOperator&) const = default;
};

struct ProfiledParameter {
  std::string name = {};
  double bytes = 0;

  bool operator==(const ProfiledParameter&) const = default;
};

/// Operators in a topological order. An operator that depends on the model's input uses batch data. One without batch data is cheap to duplicate:
/// every stage that uses its output computes it, and nothing is sent.
struct Profile {
  std::string hash = {};  ///< hash of the model's graph
  Affine input_bytes = {};
  std::vector<ProfiledOperator> operators = {};
  std::vector<ProfiledParameter> parameters = {};
  /// Operators whose outputs are outputs of the model, in addition to the last operator's; -1: the model's input. Stages forward these outputs to the
  /// last stage.
  std::vector<int> outputs = {};

  bool operator==(const Profile&) const = default;
  /// @throws ContractError with the first problem if problems_of() finds any
  void validate() const;
};

/// Problems of the profile, each naming the wrong field; empty: none.
std::vector<std::string> problems_of(const Profile& profile);

/// JSON, with costs as pairs [fixed, per row]. The format has version 2, which added `weights_s` and `waiting_bytes`.
std::string to_json(const Profile& profile);
/// The inverse of to_json(). @throws Error naming the wrong field
Profile profile_from_json(std::string_view text);

}  // namespace tw::pipeline
