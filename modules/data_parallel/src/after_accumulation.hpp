// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/csrc/autograd/function.h>

#include <utility>

namespace tw {

/// Runs `call` after autograd has added to a parameter's gradient, and passes everything through.
template <class Call>
class AfterAccumulation : public torch::autograd::FunctionPostHook {
 public:
  explicit AfterAccumulation(Call call) : call_(std::move(call)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list& /*inputs*/) override {
    call_();
    return outputs;
  }

 private:
  Call call_;
};

}  // namespace tw
