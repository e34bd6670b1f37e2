/// @file
/// Everything that a program using loopgrad includes: `namespace lg = loopgrad;` and go.
#pragma once

#include <loopgrad/arrays.h>
#include <loopgrad/autodiff.h>
#include <loopgrad/compile.h>
#include <loopgrad/device_array.h>
#include <loopgrad/error.h>
#include <loopgrad/program.h>
#include <loopgrad/report.h>
#include <loopgrad/schedule.h>
#include <loopgrad/signature.h>
#include <loopgrad/small.h>
#include <loopgrad/types.h>
#include <loopgrad/value.h>
