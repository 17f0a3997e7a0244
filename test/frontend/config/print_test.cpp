#include "test/frontend/config/Resolve.h"
