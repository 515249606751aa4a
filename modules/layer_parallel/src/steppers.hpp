// SPDX-License-Identifier: Apache-2.0
// Steppers for the layers of a stack.
#pragma once
#include <memory>
#include <string>

#include "layer_stack.hpp"
#include "linearised.hpp"
#include "step_program.hpp"
#include "vmapped_step.hpp"

namespace tw::layer_parallel {

/// Runs layer after layer, each differentiated by autograd.
std::unique_ptr<Stepper> make_one_by_one(const LayerStack& stack, Integrator integrator, double dt);
/// Runs all layers as one operation, differentiated by autograd.
std::unique_ptr<Stepper> make_vmapped(const LayerStack& stack, std::unique_ptr<VmappedStep> step);
/// Runs all layers as one operation, differentiated by its own rules.
std::unique_ptr<Stepper> make_programmed(const LayerStack& stack, std::unique_ptr<StepProgram> program);

}  // namespace tw::layer_parallel
