#pragma once
#include <initializer_list>

namespace lockstep::optim {

/// Throws InputError, "<optimizer>'s <demand>, not <values>", unless it holds.
void expect_hyper_parameter(bool holds, const char* optimizer, const char* demand,
                            std::initializer_list<double> values);

/// Throws InputError, naming optimizer and option, unless 0 <= value < infinity.
void expect_not_negative(const char* optimizer, const char* option, double value);

/// Throws InputError, naming optimizer and option, unless 0 <= value < 1.
void expect_below_one(const char* optimizer, const char* option, double value);

}  // namespace lockstep::optim
